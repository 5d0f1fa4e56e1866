"""One row of numbers of the queue, the recent past and the handover at one instant: what a
policy sees.
"""
