"""The laboratory, which the service never imports: episode tables, evaluation and training of
policies, their comparison on a simulated cluster, the shadow report, replays of logs, calibration.
The caller decides where warnings and progress are shown (`study_output`)."""
