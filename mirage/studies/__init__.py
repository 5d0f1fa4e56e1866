"""Use-cases without a command line: episode tables, evaluation and training of policies, their
comparison on a simulated cluster, and the shadow report. The caller says where they are heard.
"""
