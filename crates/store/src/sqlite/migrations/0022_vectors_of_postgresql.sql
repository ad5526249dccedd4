-- Version 22 changes PostgreSQL alone: vectors are in columns of the type vector, and policies divide the users.
SELECT 1;
