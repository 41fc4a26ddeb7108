"""What a program wants kept, how each kind of object gives its state and takes it back, and when a save is due.

Files are `checkpoint/`.
"""
