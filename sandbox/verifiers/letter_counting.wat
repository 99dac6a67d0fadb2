;; letter_counting: `count b in abcab=` -> `2`, an example of a verifier (docs/reference/wasm-abi.md).
;;
;; The exact count earns 1, a count that is one off 1/2, anything else 0. Metadata: {"off":1}, the distance, where the response is a
;; number. Of the seed, byte 0 chooses the letter, byte 1 how many letters there are (4 to 9), and bytes 2 to 10 choose the letters.
;;
;;   wat2wasm letter_counting.wat        or        wasm-tools parse letter_counting.wat -o letter_counting.wasm
(module
  (memory (export "memory") 1)
  (global $free (mut i32) (i32.const 1024))

  ;; Fixed places: the prompt at 0, the solution at 64, the metadata at 128.
  (data (i32.const 0) "count ? in ")
  (data (i32.const 128) "{\"off\":?}")

  ;; The distance between the response and the count, -1 when the response is no number.
  (global $off (mut i32) (i32.const -1))

  (func (export "abi_version") (result i32) (i32.const 1))
  (func (export "longest_prompt") (result i32) (i32.const 21))
  (func (export "longest_response") (result i32) (i32.const 1))

  ;; Every question has a fresh instance, so nothing is ever freed; the memory grows by what a long response needs.
  (func (export "alloc") (param $len i32) (result i32)
    (local $at i32) (local $missing i32)
    (local.set $at (global.get $free))
    (global.set $free (i32.add (local.get $at) (local.get $len)))
    (local.set $missing (i32.sub
      (i32.shr_u (i32.add (global.get $free) (i32.const 65535)) (i32.const 16))
      (memory.size)))
    (if (i32.gt_s (local.get $missing) (i32.const 0))
      (then (drop (memory.grow (local.get $missing)))))
    (local.get $at))

  ;; a, b or c.
  (func $letter (param $byte i32) (result i32)
    (i32.add (i32.const 97) (i32.rem_u (i32.load8_u (local.get $byte)) (i32.const 3))))

  (func $length (param $seed i32) (result i32)
    (i32.add (i32.const 4) (i32.rem_u (i32.load8_u offset=1 (local.get $seed)) (i32.const 6))))

  (func $count (param $seed i32) (result i32)
    (local $i i32) (local $count i32)
    (loop $next
      (local.set $count (i32.add (local.get $count) (i32.eq
        (call $letter (i32.add (i32.add (local.get $seed) (i32.const 2)) (local.get $i)))
        (call $letter (local.get $seed)))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (call $length (local.get $seed)))))
    (local.get $count))

  ;; An address and a length as one number.
  (func $text (param $at i32) (param $len i32) (result i64)
    (i64.or
      (i64.shl (i64.extend_i32_u (local.get $at)) (i64.const 32))
      (i64.extend_i32_u (local.get $len))))

  (func (export "prompt") (param $seed i32) (result i64)
    (local $i i32)
    (i32.store8 (i32.const 6) (call $letter (local.get $seed)))
    (loop $next
      (i32.store8 offset=11 (local.get $i)
        (call $letter (i32.add (i32.add (local.get $seed) (i32.const 2)) (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (call $length (local.get $seed)))))
    (i32.store8 offset=11 (local.get $i) (i32.const 61))
    (call $text (i32.const 0) (i32.add (local.get $i) (i32.const 12))))

  (func (export "solution") (param $seed i32) (result i64)
    (i32.store8 (i32.const 64) (i32.add (i32.const 48) (call $count (local.get $seed))))
    (call $text (i32.const 64) (i32.const 1)))

  (func (export "reward") (param $seed i32) (param $response i32) (param $len i32) (param $finished i32) (result f32)
    (local $off i32)
    ;; One digit and nothing else, not cut by length.
    (if (i32.eqz (local.get $finished)) (then (return (f32.const 0))))
    (if (i32.ne (local.get $len) (i32.const 1)) (then (return (f32.const 0))))
    (local.set $off (i32.sub (i32.load8_u (local.get $response)) (i32.const 48)))
    (if (i32.gt_u (local.get $off) (i32.const 9)) (then (return (f32.const 0))))
    (local.set $off (i32.sub (local.get $off) (call $count (local.get $seed))))
    (if (i32.lt_s (local.get $off) (i32.const 0))
      (then (local.set $off (i32.sub (i32.const 0) (local.get $off)))))
    (global.set $off (local.get $off))
    (if (i32.gt_u (local.get $off) (i32.const 1)) (then (return (f32.const 0))))
    (f32.div (f32.const 1) (f32.convert_i32_u (i32.add (local.get $off) (i32.const 1)))))

  (func (export "metadata") (result i64)
    (if (i32.lt_s (global.get $off) (i32.const 0)) (then (return (i64.const 0))))
    (i32.store8 (i32.const 135) (i32.add (i32.const 48) (global.get $off)))
    (call $text (i32.const 128) (i32.const 9))))
