"""From expressions and statements of the loop IR to LLVM's instructions."""
