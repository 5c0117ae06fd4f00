"""What is true of models, demands and machines, as plain data and arithmetic. Pure: nothing here reads or measures."""
