"""The structured loop IR: nodes, types and op table; parser, printer and builder; verifier and reference interpreter."""
