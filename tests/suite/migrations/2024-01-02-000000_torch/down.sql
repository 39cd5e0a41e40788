DELETE FROM gadgets WHERE id = 1;
