"""Hand-overs and chains played in forks of a replayed trace; `generation` writes episode tables."""
