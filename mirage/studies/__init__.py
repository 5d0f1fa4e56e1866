"""Use-cases without a command line: episode tables, evaluation and training of policies, their
comparison on a simulated cluster, the shadow report, replays of logs, checks of an installation,
and a chain's timeline. The caller decides where warnings and progress are shown."""
