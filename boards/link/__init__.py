"""The host link: frames over a serial line that read and write a board's registers and memory. docs/link.md describes them."""
