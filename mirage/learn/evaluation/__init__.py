"""How learned policies are judged: splits by time, scores of a forecast, operating points."""
