DROP TABLE flights;
