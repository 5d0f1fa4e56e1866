"""Use-cases without a command line: episode tables, evaluation and training of policies, their
comparison on a simulated cluster, the shadow report, replays of logs, and checks of an
installation. The caller decides where warnings and progress are shown."""
