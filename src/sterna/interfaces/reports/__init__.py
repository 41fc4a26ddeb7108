"""What was found, in the forms people and programs read: text tables, CSV, JSON, Markdown, one HTML page.

Everything here turns values into text. Nothing here reads, writes, decides or knows of a terminal.
"""
