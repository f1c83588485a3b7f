-- lane_row: what `Q:lanes` says of a lane, its limit and its text, and when it is forgotten.

local lane_key, limit_of, forget_lane, forget_end

do
function lane_key(hash)
  return Q .. 'lane:' .. hash
end

function limit_of(hash)
  local row = pcall_redis('HGET', Q .. 'lanes', hash)
  return type(row) == 'string' and whole(string.match(row, '^%d+'), 1) or 1
end

-- Nothing is kept of a lane without tasks, but a limit that somebody set.
function forget_lane(hash)
  if call('EXISTS', lane_key(hash), Q .. 'lane-ends:' .. hash) == 0 and limit_of(hash) == 1 then
    pcall_redis('HDEL', Q .. 'lanes', hash)
  end
end

-- The task is removed.
function forget_end(id, rec)
  local hash = hash_of(rec.ln)
  pcall_redis('ZREM', Q .. 'lane-ends:' .. hash, id)
  forget_lane(hash)
end
end
