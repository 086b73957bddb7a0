"""What every command line needs: its output, its exit status and its error messages."""
