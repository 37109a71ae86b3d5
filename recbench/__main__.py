"""`python -m recbench`."""

from recbench.cli import main

if __name__ == "__main__":
    main(prog_name="recbench")
