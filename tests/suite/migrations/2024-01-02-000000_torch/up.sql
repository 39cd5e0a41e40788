INSERT INTO gadgets (id, name) VALUES (1, 'torch');
