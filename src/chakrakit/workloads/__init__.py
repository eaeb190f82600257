"""Traces of models that never ran: model × parallel plan × step → TraceSet."""
