"""The Python interface: connections, cursors, rows, receipts."""
