-- Stores take their numbers by themselves. Functions change and come, and none has other arguments or results than before.
DROP SEQUENCE IF EXISTS {schema}.store_number;
