-- lane_row: what `Q:lanes` says of a lane, its limit and its text, and when it is forgotten.
--
-- `<limit> <text>`; or `<limit><<most> <text>` while more have been let go than the limit says: it has fallen since, or
-- rows were lost and put back.

local lane_key, row_of, set_row, forget_lane, forget_end

do
function lane_key(hash)
  return Q .. 'lane:' .. hash
end

-- Its limit, how many of it may have been let go, and its text; no text where there is no row. `row` where it has been read.
function row_of(hash, row)
  row = row or pcall_redis('HGET', Q .. 'lanes', hash)
  local limit, most, text = string.match(type(row) == 'string' and row or '', '^(%d+)<?(%d*) (.*)$')
  limit = whole(limit, 1) or 1
  return limit, math.max(limit, whole(most) or 0), text
end

function set_row(hash, limit, most, text)
  local row = most > limit and int(limit) .. '<' .. int(most) or int(limit)
  call('HSET', Q .. 'lanes', hash, row .. ' ' .. text)
end

-- Nothing is kept of a lane without tasks, but a limit that somebody set.
function forget_lane(hash)
  if call('EXISTS', lane_key(hash), Q .. 'lane-ends:' .. hash) == 0 and (row_of(hash)) == 1 then
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
