"""Two recordings held against each other: what is concluded of that is data."""
