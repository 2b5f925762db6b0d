-- Returns when a cell ends unless it is renewed or used. Its watch calls this, because no script
-- runs when a cell expires. This is not a use of the cell.
--
-- KEYS  the cell
-- ->    ms until then | -1 it stays | -2 it does not exist
-- Cost  constant.
return call('PTTL', KEYS[1])
