"""From a schedule to the loop IR, the verifier of its safety, and the interpreter that defines what it means."""
