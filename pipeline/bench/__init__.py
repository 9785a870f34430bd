"""The bench: recorded callers, in real time, through the very session a visitor gets; a table and a JSON report."""
