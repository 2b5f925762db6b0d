-- When a cell ends unless it is renewed or used: its watch calls this, since nothing else happens then.
-- No use.
--
-- KEYS  the cell
-- ->    ms until then | -1 it stays | -2 there is none
-- Cost  constant.
return call('PTTL', KEYS[1])
