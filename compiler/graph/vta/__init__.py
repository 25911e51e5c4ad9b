"""Networks on the accelerator: which nodes it takes, how the others join them, and programs of whole regions."""
