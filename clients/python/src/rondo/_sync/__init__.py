"""The synchronous client. Most of it is made of the asynchronous one."""
