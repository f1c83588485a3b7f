-- Records as listpack hashes (A, B, F). With V.lean a field at its default is absent.
local function new_record(id, digest, entry)
  if V.lean then
    call('HSET', TASK .. id, 'st', 'q', 'en', now_text, 'run', 'n:' .. entry, 'dg', digest)
    return
  end
  call('HSET', TASK .. id, 'st', 'q', 'rev', '1', 'at', '0', 'fl', '0', 'rc', '0', 'en', now_text, 'run', 'n:' .. entry,
    'lv', 'n', 'dg', digest, 'ma', '5', 'rt', '86400000')
end

local function start(entries, token, trim, load_bodies)
  local ids, answer, found, revs = {}, { string.format('%.0f', token) }, {}, {}
  for i = 1, #entries do
    local entry, fields = entries[i][1], entries[i][2]
    local r = call('HMGET', TASK .. fields[2], 'st', 'run', 'rev', 'at', 'fl', 'rc', 'ma', 'rt', 'dl', 'stop')
    if r[1] == 'q' and r[2] == 'n:' .. entry then
      local n = #ids + 1
      ids[n], found[n] = fields[2], fields
      local at = 4 * n - 2
      answer[at], answer[at + 1], answer[at + 2] = fields[2], r[2], (r[4] or 0) + 1
      revs[n] = (r[3] or 1) + 1
    end
  end
  load_bodies(ids, answer, found)
  call('XTRIM', READY, 'MINID', trim)
  for i = 1, #ids do
    call('HSET', TASK .. ids[i], 'st', 'r', 'rev', revs[i], 'at', answer[4 * i], 'inc', INC,
      'tok', string.format('%.0f', token + i - 1), 'cl', now_text, 'wk', WORKER)
  end
  return ids, answer
end

function V.check(ids, runs, results)
  local done, records, kept = {}, {}, {}
  for i = 1, #ids do
    local r = call('HMGET', TASK .. ids[i], 'st', 'run', 'inc', 'rev', 'at', 'fl', 'rc', 'ma', 'stop', 'dl')
    if r[1] == 'r' and r[2] == runs[i] and r[3] == INC then
      local n = #done + 1
      done[n], records[n], kept[n] = ids[i], r, results[i]
    end
  end
  return done, records, kept
end

function V.finish(done, records, kept)
  for i = 1, #done do
    local key, rev = TASK .. done[i], records[i][4] + 1
    if MODE == 'inline' then
      call('HSET', key, 'st', 'c', 'rev', rev, 'ed', now_text, 'res', kept[i])
    else
      call('HSET', key, 'st', 'c', 'rev', rev, 'ed', now_text)
    end
  end
end

function V.keys(list, id)
  list[#list + 1] = TASK .. id
  list[#list + 1] = BODY .. id
end
