"""The usual failures of an application, caused for real, and the page that says what is seen of each."""
