"""What Model.fit and its kin are made of: batches of any data, losses and metrics by name, what compile() was told.

model.py trains with these; cairn.keras builds its own classes on them. Nothing here imports cairn.keras: what a Keras
object must have to take part (update_state, step_on, call with a reduction) is asked of it, not of its class.
"""
