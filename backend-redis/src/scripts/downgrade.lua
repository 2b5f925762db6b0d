-- Turns an admitted writer into a reader in its place, with its sequence number; admits and
-- notifies the readers after it up to the next writer. A reader stays a reader. A waiter is not
-- changed, because it would overtake others.
--
-- KEYS  seq exp node meta one writers
-- ARGV  now (empty: the server's) | shape (rw) | id | sequence
-- ->    { 1 if it is a reader now, otherwise 0, flags, now }
-- Cost  O(log n), and the dropped and admitted nodes.
local now, id = time(ARGV[1]), ARGV[3]
local q = open(ARGV[2], 1, now, {}, false)
local there = 0
local seq = find(q, id)
ease(q)
local wait = seq and seq == tonumber(ARGV[4]) and stands(q, id, seq)
if wait == UNSETTLED then
  close(q)
  return redis.error_reply('BUSY the queue is being mended')
elseif wait == 0 then
  call('HSET', q.node, id, 's' .. string.sub(call('HGET', q.node, id), 2))
  local was_writer = call('ZREM', q.extra, id)
  q.writers, q.changed = q.writers - was_writer, q.changed or was_writer > 0
  admit(q)
  there = 1
end
return { there, close(q), now }
