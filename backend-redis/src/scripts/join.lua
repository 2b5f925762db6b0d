-- Joins a queue, or finds and renews the node of an earlier request of the same attempt.
--
-- KEYS  seq exp node meta [one] [extra] left
-- ARGV  now (empty: the server's) | shape | id | claim x/s/p | weight | ttl, us | the requested limit (empty: the stored
--       limit; after ~: this limit if none is stored) | secret@inbox | label [NUL data] | 1 for a try
-- ->    { answer, a, b, flags, now }
--       1 admitted (a: sequence, b: the nodes ahead, or more) | 2 waiting (a: sequence, b: us until the node that it waits for may have expired)
--       0 a try that was not admitted | -1 abandoned before | -2 another limit, or a limit that is too low (a: the stored
--       limit; -1: none is stored; a text: the stored text, which is not a limit)
--       or an error that begins with OUTOFRANGE and names a key, before anything is written
-- Cost  O(log n), and the dropped and admitted nodes.
local id = ARGV[3]
local claim, ttl, label = ARGV[4], tonumber(ARGV[6]), ARGV[9]
local want = tonumber(ARGV[5])
local unless_stored, asked = string.match(ARGV[7], '^(~?)(%d*)$')
unless_stored, asked = unless_stored == '~', tonumber(asked)
local left = KEYS[#KEYS]

local q = open(ARGV[2], 1, now, { [id] = true }, true)

local function answer(code, a, b)
  return { code, a or 0, b or 0, close(q), now }
end

if q.unknown then
  q.left = tonumber(call('ZRANGE', left, -1, -1, 'WITHSCORES')[2]) or 0
end
if q.left > now and tonumber(call('ZSCORE', left, id) or 0) > now then
  return answer(-1)
end

local seq = q.count > 0 and find(q, id)
if seq then
  call('ZADD', q.exp, now + ttl, id)
  keep(q, ttl)
  local wait = stands(q, id, seq)
  if wait == 0 then
    return answer(1, seq, q.count)
  elseif wait == UNSETTLED then
    return answer(2, seq, LONGEST)
  elseif wait < 0 then
    return answer(-2, q.limit or q.foreign or -1)
  end
  return answer(2, seq, wait - 1)
end

local free
if shape == 'x' then
  free = q.count == 0
elseif shape == 'rw' then
  free = claim == 's' and q.writers == 0 or q.count == 0
else
  local limit = q.limit or not q.foreign and asked
  if not limit or (asked and asked ~= limit and not unless_stored) then
    return answer(-2, q.limit or q.foreign or -1)
  end
  if want > limit then
    return answer(-2, limit)
  end
  if not q.limit then
    q.limit = limit
    call('SET', q.extra, num(limit))
    -- A limit may have been stored before: then nodes wait for it.
    admit(q)
  end
  free = (q.count == 0 or call('ZCOUNT', q.seq, '(' .. num(q.front), '+inf') == 0) and q.sum + want <= limit
end
free = free and not q.mend
if ARGV[10] == '1' and not free then
  return answer(0)
end

seq = math.max(now, q.last + 1)
q.last, q.changed = seq, true
call('ZADD', q.seq, written(q, seq), id)
call('ZADD', q.exp, now + ttl, id)
call('HSET', q.node, id, table.concat({ claim, ARGV[5], ARGV[6], q.t, ARGV[8], label }, ' '))
-- Keys that were empty are new, and have no expiry yet.
keep(q, ttl, q.count == 0)
if shape == 'rw' and claim == 'x' then
  q.writers = q.writers + call('ZADD', q.extra, seq, id)
  call('PEXPIRE', q.extra, math.ceil((q.alive - now) / 1000))
end
q.count = q.count + 1
if not free then
  local wait = stands(q, id, seq)
  if wait == UNSETTLED then
    -- The end of the repair notifies it of its admission.
    return answer(2, seq, LONGEST)
  elseif wait > 0 then
    return answer(2, seq, wait - 1)
  end
  -- The entry ahead was not a node, and is removed.
  return answer(1, seq, q.count)
end
-- If more readers must be notified ("more"), the mark must not skip them.
if shape ~= 'rw' or not q.more then
  q.front = seq
end
if shape == 'p' then
  q.sum = q.sum + want
end
return answer(1, seq, q.count - 1)
