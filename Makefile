# The commands of this project; `make help` lists them.
SHELL := bash
.DEFAULT_GOAL := help
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin

PYTHON := .venv/bin/python
FUZZ_SECONDS ?= 10
# The folders of `make install`, below DESTDIR; units name the program by PREFIX alone.
PREFIX ?= /usr/local
DESTDIR ?=
BINARY ?= target/release/caravan

.PHONY: help setup demo check test bench fuzz wheel release install

help: ## lists these commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## installs what is missing: one apt line as root, crates, Python packages
	@tools/setup all

demo: setup release ## starts client, NAT, gateway and server, and compares the policies
	$(PYTHON) -m caravan.demo

check: ## the part of the tests without root or network: run before each commit
	@tools/setup build
	@tools/test check

test: setup ## everything that must pass: check, namespaces, strongSwan, fuzzing
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/test all

bench: setup release ## measures Caravan, wireguard-go, boringtun, strongSwan, and the lab
	@tools/bench-peers
	$(PYTHON) -m caravan.bench

fuzz: ## fuzzes every parser and the packet planes for FUZZ_SECONDS (10) each
	@tools/setup build
	fuzz/run.sh all $(FUZZ_SECONDS)

wheel: ## builds one Python wheel with caravan-lab, its core, the catalogue and caravan
	@tools/setup build
	@tools/wheel

release: ## builds the program, target/release/caravan
	cargo build --release --locked -p daemon

install: ## puts what `make release` built, units and samples under PREFIX (/usr/local)
	@test -x $(BINARY) || { echo "$(BINARY) is missing: make release" >&2; exit 1; }
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/share/doc/caravan
	strip --strip-debug -o $(DESTDIR)$(PREFIX)/bin/caravan $(BINARY)
	chmod 755 $(DESTDIR)$(PREFIX)/bin/caravan
	if [ -x $(dir $(BINARY))caravan-token ]; then \
	  strip --strip-debug -o $(DESTDIR)$(PREFIX)/bin/caravan-token $(dir $(BINARY))caravan-token; \
	  chmod 755 $(DESTDIR)$(PREFIX)/bin/caravan-token; fi
	for unit in caravan-gateway.service caravan-home-agent.service \
		caravan-foreign-agent.service caravan-firewall.service caravan@.service; do \
	  sed 's|/usr/local/bin/|$(PREFIX)/bin/|' packaging/$$unit \
	    > $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit || exit 1; done
	install -d -m 755 $(DESTDIR)/etc/caravan
	install -d $(DESTDIR)$(PREFIX)/lib/sysusers.d
	install -m 644 packaging/caravan.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/caravan.conf
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/networkd.conf.d
	install -m 644 packaging/networkd.conf \
	  $(DESTDIR)$(PREFIX)/lib/systemd/networkd.conf.d/caravan.conf
	install -m 644 packaging/*.toml docs/vpn-*.md \
	  $(DESTDIR)$(PREFIX)/share/doc/caravan
	@echo "next: systemd-sysusers makes the user caravan (or useradd --system caravan), then"
	@echo "/etc/caravan/gateway.toml or client.toml, as in $(PREFIX)/share/doc/caravan; for Mobile IP"
	@echo "home-agent.toml, mobile.toml, foreign-agent.toml or firewall.toml, see vpn-mobile-ip.md there"
