-- D: while queued the record is tiny and body and spec lie in the stream entry; the claim builds the record of C.
function V.create(ids, digests, bodies)
  local sets = {}
  local spec = pack({ ma = MA, rt = RT, lv = 'n', en = now })
  for i = 1, #ids do
    local run = 'n:' .. call('XADD', READY, '*', 'i', ids[i], 'b', bodies[i], 's', spec)
    sets[2 * i - 1], sets[2 * i] = TASK .. ids[i], pack({ st = 'q', run = run, dg = digests[i] })
  end
  call('MSET', unpack(sets))
end

function V.take(r, fields, sets)
  for k, v in pairs(unpack_rec(fields[6])) do r[k] = v end
  r.fl, r.rc = r.fl or 0, r.rc or 0
  if #fields[4] <= LIMIT then
    r.b = fields[4]
  else
    sets[#sets + 1] = BODY .. fields[2]
    sets[#sets + 1] = fields[4]
  end
end
