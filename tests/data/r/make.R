# Makes the files in this folder. Run here: Rscript make.R (R 4.2.2 made those that are committed).
n <- 40
people <- data.frame(
  region = rep(c("01", "02"), each = 20),
  town = factor(rep(c("0101", "0102", "0201", "0202"), each = 10), levels = c("0202", "0201", "0102", "0101")),
  sex = rep(c("f", "m", NA, "f"), 10),
  job = rep(c("공무원", "none", "caf\u00e9", "a text of more than sixteen bytes"), 10),
  owner = rep(c(TRUE, FALSE, TRUE, NA), 10),
  age = rep(c(1L, 2L, 3L, NA, 5L), 8),
  rooms = rep(c(1, 2, 10, NaN), 10),
  share = rep(c(0.5, 10.25), 20),
  since = rep(as.Date(c("2020-01-31", "2021-12-01", NA, "1969-12-31")), 10),
  seen = rep(as.POSIXct(c("2020-01-31 09:00:00", "2021-07-01 10:30:00"), tz = "Asia/Seoul"), 20),
  line = seq_len(n),
  mark = as.character(seq_len(n)),
  stringsAsFactors = FALSE
)
people$tags <- rep(list(1:2), n)
people$big <- structure(readBin(as.raw(rep(c(0, 0, 0, 0, 1, 0, 0, 0), n)), "double", n, endian = "little"),
                        class = "integer64")
latin <- "caf\xe9"
Encoding(latin) <- "latin1"
people$latin <- rep(latin, n)
people$nines <- rep(c("123456789", "tab\tis 9", "", "NA"), 10)

saveRDS(people, "people.rds")
saveRDS(people, "people-v2.rds", version = 2)
saveRDS(people, "people-xz.rds", compress = "xz")
saveRDS(people, "people-bz2.rds", compress = "bzip2")
saveRDS(people, "people-plain.rds", compress = FALSE)
saveRDS(people[1:4, 1:3], "text.rds", ascii = TRUE)
saveRDS(1:10, "numbers.rds")

# A workspace with one data frame among other things: a compiled function, an environment, a formula, an S4 object.
doubled <- compiler::cmpfun(function(x, ...) { if (x > 1) for (i in 1:3) x <- x * 2; list(x = x, y = quote(a + b)) })
place <- new.env()
place$doubled <- doubled
model <- y ~ x + z
setClass("Point", representation(x = "numeric"))
point <- new("Point", x = 1)
numbers <- list(a = 1:3, b = list(c = "x"), matrix(1:4, 2), as.raw(1:3), 1i, sum, expression(a, b))
save(doubled, place, model, point, numbers, people, file = "people.RData")
others <- people[1:3, 1:2]
save(people, others, file = "two.RData")
save(numbers, file = "none.RData")

# A finest table as the R package iLBA saves it, with a date, a factor and a logical value among its keys.
full_tb <- data.frame(
  town = c("a", "a", "b", "b"),
  since = as.Date(c("2020-01-31", "2021-12-01", "2020-01-31", "2021-12-01")),
  size = factor(c("small", "large", "small", "small"), levels = c("small", "large")),
  owner = c(TRUE, FALSE, TRUE, TRUE),
  N = c(3L, 8L, 1L, 6L),
  N_masked = c(5L, 8L, 0L, 6L),
  stringsAsFactors = FALSE
)
key <- c("since", "size", "owner")
saveRDS(list(full_tb = full_tb, mask_thr = 5L, hkey = "town", hkey_values = list(unique(full_tb$town)), key = key,
             key_values = lapply(key, function(name) unique(full_tb[[name]]))), "full_tb.rds")
