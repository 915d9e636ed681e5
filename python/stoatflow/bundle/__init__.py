"""A support archive of a running application.

Takes what its admin port answers, and what this machine knows of its process; gives a zip file that can be sent to a
colleague. `endpoints` asks, `machine` and `log_file` look around, `secrets` and `record_data` take out what must not
leave, `findings` and `summary` say what is to be seen, `archive` writes. Changes nothing in the application.
"""
