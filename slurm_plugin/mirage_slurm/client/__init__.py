"""What is said to the Mirage service, and whether it is the service that answers. Imports no other room."""
