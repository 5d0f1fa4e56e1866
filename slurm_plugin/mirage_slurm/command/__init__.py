"""The program `mirage`: `mirage chain` and `mirage plugin`, and the way to the commands of mirage-provisioner."""
