-- Records as one MessagePack map in a string (C, D, E). Keys a script does not know survive load, change, save.
local LIMIT = tonumber(ARGV[2]) -- longest body kept inside the record, bytes

function V.start(entries, token, trim)
  local keys = {}
  for i = 1, #entries do keys[i] = TASK .. entries[i][2][2] end
  local found = call('MGET', unpack(keys))
  local ids, answer, sets, apart, apart_at = {}, { string.format('%.0f', token) }, {}, {}, {}
  for i = 1, #entries do
    local run, fields = 'n:' .. entries[i][1], entries[i][2]
    local r = found[i] and unpack_rec(found[i])
    if r and r.st == 'q' and r.run == run then
      local n = #ids + 1
      if fields[3] then V.take(r, fields, sets) end
      r.st, r.rev, r.at = 'r', (r.rev or 1) + 1, (r.at or 0) + 1
      r.inc, r.tok, r.cl, r.wk = INC, token + n - 1, now, WORKER
      ids[n] = fields[2]
      local at, body = 4 * n - 2, r.b or fields[4]
      answer[at], answer[at + 1], answer[at + 2], answer[at + 3] = fields[2], run, r.at, body or ''
      if not body then
        apart[#apart + 1] = BODY .. fields[2]
        apart_at[#apart] = at + 3
      end
      sets[#sets + 1] = keys[i]
      sets[#sets + 1] = pack(r)
    end
  end
  if #apart > 0 then
    local bodies = call('MGET', unpack(apart))
    for i = 1, #apart do answer[apart_at[i]] = bodies[i] end
  end
  call('XTRIM', READY, 'MINID', trim)
  write_all('MSET', sets)
  return ids, answer
end

function V.check(ids, runs, results)
  local found = call('MGET', unpack(prefixed(TASK, ids)))
  local done, records, kept = {}, {}, {}
  for i = 1, #ids do
    local r = found[i] and unpack_rec(found[i])
    if r and r.st == 'r' and r.run == runs[i] and r.inc == INC then
      local n = #done + 1
      done[n], records[n], kept[n] = ids[i], r, results[i]
    end
  end
  return done, records, kept
end

function V.finish(done, records, kept)
  local sets = {}
  for i = 1, #done do
    local r = records[i]
    r.st, r.rev, r.ed = 'c', r.rev + 1, now
    if MODE == 'inline' then r.res = kept[i] end
    sets[2 * i - 1], sets[2 * i] = TASK .. done[i], pack(r)
  end
  call('MSET', unpack(sets))
end

function V.keys(list, id, r)
  list[#list + 1] = TASK .. id
  if not r.b then list[#list + 1] = BODY .. id end
end
