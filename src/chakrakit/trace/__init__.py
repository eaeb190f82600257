"""What a trace is: schema, columns, codecs, graph, edges, collectives, Run, feeder, validation."""
