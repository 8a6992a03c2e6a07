-- The first page of 20, over and over.
local requests = require("requests")

function prepare()
  return requests.list("limit=20")
end
