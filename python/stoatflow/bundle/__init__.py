"""A support archive of a running application.

Takes the answers of the application's admin port, and what this machine knows of its process; writes a zip file that
can be sent to a colleague. `endpoints` queries the port, `machine` and `log_file` inspect the machine, `secrets` and
`record_data` remove what must stay private, `findings` and `summary` list what is wrong, `archive` writes. Changes
nothing in the application.
"""
