"""What people use: the command line and the HTTP endpoint."""
