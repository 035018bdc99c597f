# Digests, ciphers, signatures and a certificate: the code that asks the CPU what it can do.
# needs: openssl
# seconds: 120
# stderr: varies
set -eu
seq 1 200000 > data
for digest in md5 sha1 sha256 sha512 sha3-256 blake2b512; do openssl dgst -$digest data; done
for cipher in aes-128-cbc aes-256-ctr aes-256-cbc chacha20 des-ede3-cbc camellia-128-cbc; do
  openssl enc -$cipher -K "$(printf '%064d' 7 | head -c $(case $cipher in *128*) echo 32;; des*) echo 48;; *) echo 64;; esac))" \
    -iv "$(case $cipher in des*) echo 0123456789abcdef;; *) echo 00112233445566778899aabbccddeeff;; esac)" -in data -out data.$cipher
  sha256sum data.$cipher
done
openssl enc -d -aes-128-cbc -K "$(printf '%064d' 7 | head -c 32)" -iv 00112233445566778899aabbccddeeff -in data.aes-128-cbc | cmp - data
openssl dgst -sha256 -hmac key data
openssl genpkey -quiet -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa.pem
openssl dgst -sha256 -sign rsa.pem -out signature data
openssl pkey -in rsa.pem -pubout -out rsa.pub
openssl dgst -sha256 -verify rsa.pub -signature signature data
openssl genpkey -algorithm ed25519 -out ed.pem && openssl pkey -in ed.pem -noout && echo ed25519
openssl ecparam -name prime256v1 -genkey -noout -out ec.pem && openssl ec -in ec.pem -noout -check
openssl req -x509 -new -key rsa.pem -subj /CN=test -days 2 -out cert.pem && openssl verify -CAfile cert.pem cert.pem
openssl rand -hex 16 | wc -c
openssl prime 1000000007
for what in 'sha256 -bytes 1024' '-evp aes-128-gcm -bytes 1024' rsa2048; do
  openssl speed -seconds 1 $what 2>/dev/null | sed -E 's/[0-9.]+[ks]?/N/g' | grep -E '^(sha|aes|AES|rsa|type)' | tr -s ' '
done
