"""What tests of several rooms share: builders of people and stores, places of files, and a server that runs."""
