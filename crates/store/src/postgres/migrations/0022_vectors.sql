-- Vectors become columns of the type vector, which other programs can read. They are made anew from the texts.
DELETE FROM vectors;

ALTER TABLE vectors DROP COLUMN vector;

ALTER TABLE vectors ADD COLUMN vector vector;
