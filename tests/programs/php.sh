# optional: php
set -eu
php -r '$a = []; for ($i = 0; $i < 200000; $i++) $a["k" . $i % 997] = ($a["k" . $i % 997] ?? 0) + $i; ksort($a); echo md5(json_encode($a)), PHP_EOL; try { intdiv(1, 0); } catch (DivisionByZeroError $e) { echo get_class($e), PHP_EOL; } echo preg_replace_callback("/\d+/", fn($m) => $m[0] * 2, "a1b22"), PHP_EOL;'
