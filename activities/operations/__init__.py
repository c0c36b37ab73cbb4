"""Operations: the engine that moves their rows, calls their adapters, and the activities a workflow names."""
