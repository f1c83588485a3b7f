-- C: record and body in one string, every field written; stream entry = id. A body over the limit has its own key.
function V.create(ids, digests, bodies)
  local sets = {}
  for i = 1, #ids do
    local r = { st = 'q', rev = 1, at = 0, fl = 0, rc = 0, en = now, lv = 'n', dg = digests[i], ma = MA, rt = RT }
    r.run = 'n:' .. call('XADD', READY, '*', 'i', ids[i])
    if #bodies[i] <= LIMIT then
      r.b = bodies[i]
    else
      sets[#sets + 1] = BODY .. ids[i]
      sets[#sets + 1] = bodies[i]
    end
    sets[#sets + 1] = TASK .. ids[i]
    sets[#sets + 1] = pack(r)
  end
  call('MSET', unpack(sets))
end
