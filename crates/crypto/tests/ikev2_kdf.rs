//! The keys of an IKE SA by the numbers that NIST's CAVP has for SP 800-135's IKEv2: SKEYSEED from
//! the nonces and the shared secret, and prf+ from SKEYSEED (RFC 7296 §2.14), each with the
//! shortest and with the longest nonces. The numbers are those in strongSwan's plugin test-vectors
//! (kdf_prf and kdf_prf_plus). Then the keys of children (§2.17), by NIST's ACVP.

use crypto::hash::Hash;
use crypto::prf::prf_plus;

struct Vector {
    hash: Hash,
    key: &'static str,
    seed: &'static str,
    out: &'static str,
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    let octet = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(octet).collect()
}

#[test]
fn skeyseed_is_as_published() {
    for vector in &SKEYSEED {
        let made = vector.hash.hmac(&hex(vector.key), &[&hex(vector.seed)]);
        assert_eq!(made.as_ref(), hex(vector.out), "{:?}", vector.hash);
    }
}

#[test]
fn keys_from_skeyseed_are_as_published() {
    for vector in &KEYS {
        let expected = hex(vector.out);
        let mut made = vec![0; expected.len()];
        prf_plus(
            vector.hash,
            &hex(vector.key),
            &[&hex(vector.seed)],
            &mut made,
        );
        assert_eq!(made, expected, "{:?}", vector.hash);
    }
}

/// prf(Ni | Nr, g^ir).
const SKEYSEED: [Vector; 6] = [
    Vector {
        hash: Hash::Sha256,
        key: "ed80dc79912c32a935fb6d1a3feac078",
        seed: "42968e5d0ccc3cfc5a3e4bc1bba370cea1fae0d54c49ccba34b2bee804beeb2e9e8c57a4e01bd451\
            02cf2433aacc6cfec06792f363e5170e6aa6650274e906648e449d27a8f00b5b44261982c9835c74\
            8a751ec5138eaacc5e025661339538a61bf418e454699e19c32db8d9ce5dd86b220f1e89afc5872e\
            68be36cb1a0c8866",
        out: "37fde90b81d63692620f67367b62092e3efdc6a03509137d731004767ff35010",
    },
    Vector {
        hash: Hash::Sha256,
        key: "efa72913182278ffbd14e78920c062519abab8c16e5ed70c0841a48cdb98237ee93f735fb2df1843\
            58aadc13d83f43fe8d8705176c8ca313825a1bcdf77911c598001671ffbf014e37a8c04d49a7839d\
            fea6cdc587688d4588fe43235b71693ffd07293386b6bf4c199e336165b260787736f54be95db691\
            16388bc2eca2b3b29484717417bb3c71814ce13b84446dc3964c302984f97781f63166240890107c\
            2e751a00436f7c3c9ff12760e49d91563be603fd9641a0a64918a93291ed113db12f9707609d1720\
            96eb58f9154474da40c1f5c0903e9ca2f91ba6600775df7166caf8e327859e676232d34046044cee\
            43f9019f04685612635b99cbebcb363d565eaf0e547eecb941c994dfd471ed5643c087744f7709cc\
            3e2510f27426c62c0ff3acb3c27661d26a6d83c2a25e13a6d465bd047f905500e5ebbe4266430d56\
            67140f77e797712a8c8f63c583f4b4649b72899ea34abfdb17617c460c35f2506494494f223e251a\
            c71a5b9b7eea87f4f5e333a3c1bbb4bb09258b6a4b5f8c9fb82bf42da9d4a46543c6a9eb9aa30ea9\
            da801915abcc1712d082f292a63fd9af7154a97cc73859a4be3cba359d3218004e14df02d09edf0a\
            d5796bb010995293ab5d042c31055380cc9cb2e3617982c45f6bce1fb8a40ef9eac48ae17720dfec\
            c71ec857ea33f32eb346ba6036e8f9ccd7bcadc6c1ab92a80c57e78959d8b828",
        seed: "b070208f8947df4f7d1276161f407f7b7f5c4a49ac79f0cc0c7d4e28484c6f8584f0007b9bf0e05f\
            db5961a17d3aa85c6e3f5571296a43ba896cdc88c1a4457fb12cbe56ca4a20c9a7e19adc67453c4a\
            de539e259f825ff94c9a83f839602f8651c9276d8e444ecb95a0540ee7ea3220a922345ed99ef7e7\
            ad32b19d4610e9ef",
        out: "29bd115568ae0988270fc386d395fe3707a4d06289f352bba4c00a9ad855a08d",
    },
    Vector {
        hash: Hash::Sha384,
        key: "d672b0bc852829b93509f3b724706364",
        seed: "4df040b70978629c49437cff41a0d46cbea68c8d75b370ffc11d7b387144ea83bb5903fbb92e473d\
            f50a9b19ea43e9c2f3da9a849c03864276c6f264ecf02a60d40ba65c06656b633f02a87427e928eb\
            66a2dabd9dc05744717bcaf7ae78c296872f5c48d1a8120c2155b70c565ce271998e3e44af263d48\
            7ea3ba7f56132d7d",
        out: "54436a9ea95d6ff79b967f4b07f6de976a376e8ea26aa9574709afc60243c9c141da4ca0e158e627\
            a75ea87f6feb07ef",
    },
    Vector {
        hash: Hash::Sha384,
        key: "9e2a62f9362893ddf84716fec2f23f9dcbd9010df6fe9e0eb46d03d914f304d8fe4d3ee2d6a03b40\
            e56a325e822a17361929184ade09eaa445278d3870417a7cf565584f572ad34ff72bc7781a39a48b\
            54b55d6eb0ed68551b222c7afada0bc82236ec31ce6c046b3b2edb2def61f4d2d857b2d1cb3696c0\
            23e08c08d6abd04d4f69092b14583735b9e918aee5a3999dcbf58fdad6fcd47c95929877030e54b7\
            08235f2a2e11e7c58584619aa2fa69315344d3657b55720a25ebe88ea0776972c9e22469b7ed5da9\
            6b3c7685f7b0569960bd644f130b44a0d551bb0e902ed68ab384fdc2facaf79bbf8d6d3736dfa952\
            cd70f4746f1a4aeac2bdbeca97b78fc1777878c12859433552a77d7f942e5b60476991a1e3d0427c\
            d677345a1ce2063a2e0ec547a9d821da759f1a91b58817bd0dc4effc126f6f4eb0b911e904ed21dc\
            439d658a773f97e179ad20bc3c63609f2874062e835f6ae08d59654f9c8861e527039eeac32b9eed\
            293bd8b1e0e7c67bf1d755246a1b063ff00632a46dd5cf6948f0eed9b65c5939dfd21480a63df0ca\
            b0a7509c4245a1be7547ccc6f73c724b48b7867012e0ca3e472e0d550649a734440feffc8e73682c\
            b60453e7a47e72fe0874eb40acd0d48e4e57197416112bcdc8bb7a58bea745fdd64c16f666c88d9e\
            3bd235b137206f6cdba190be65ec033c191f676b428ec1205dc5e945828508d8",
        seed: "ae505082ac47ff9aa354b7af2b072cb49cec838d00ee3613881a9977b2159599a02495f0e52d961a\
            516c6bb61ed03a8637bb507c5c27bab58df154e8e5014821840cfc50b3a478b45dd168eb180d69cb\
            a61a1b4259193a51a7a495c95805382e3abf5587688f34b63f71163982de3ddf7f263bb69f65c3ec\
            ae6165bf7fdd5317",
        out: "ff66e9d092dc01e0b81f939f52f5c07d38d805b98628ce1ac5fe94c098577647339fad68941ffe21\
            e01efb4e7050213b",
    },
    Vector {
        hash: Hash::Sha512,
        key: "df7931db9b429e10b8aa8e4d46042393",
        seed: "1e3b007d2da913ca60ecc98c25a22db08073d5c35c11b2524b298a922b6abfe6acf7359db66ae5f8\
            5d67aacff686419cd8666d05ae7977cefad7f54dd8e312a8e8e5e0370f88142fbdd659dd6fde22bd\
            d531f5402881a8de85c1024e595ec93c575618af7fd3dbac7982919078d71cc13eff1910a032750e\
            1ff428675de189ee",
        out: "daf9bd6f2f912da553867966af386e67909a8df0ca7e84b83b355cb7d7f1026f17d8ea34b5d57fd0\
            d1ba389528fca1e81d1c8ce511b28a2458241143fee30ccc",
    },
    Vector {
        hash: Hash::Sha512,
        key: "d89684e3cb17f3aabd853a78db3ecd5aacc1ed71c70b88a29756f46fc7197c804ec001544002a8ae\
            a360684b18006def0dbd8633b1019fbcfa85b94cac2bb8212584be62adab0ee4bb8a36aee25275ef\
            071390480eefa2092eb308aa7337c5ceb6069ab690e8962fbfe0986e4f5c18f486861ed3f1dcbee4\
            c9e4a7669d740ca2b0e8ed4031b0a499dc315cede7ef03399cbc33dcd62970349f1220881b55452e\
            0c6c9b52a88b67f597586795b22570733fd4ff2cc2ad931d8330165a9e450e388859ce624f01db17\
            c2502b4e66adf96527363d6f906b2023e8ed74d5af0aa60246b0b92f49c4933ef312f8a25434ee96\
            98d6d9204345bd10bb11aa39865616d5ad1b5744706cfd4ea1408e20c8fdcf8551eee8814b7b3733\
            0b0526f0bc5ee15d4ecda7a1bd25aa97f24584d85d3f5249694b9f43539e69ea35bfe7fd4407bc8e\
            9dca8a9fae4bdc6b7bb38c6d68f899e1d32c85bcd617a567678cf85d2217a4e86a755624b6400235\
            4c026842bc9542491af1c3d6290970559af11bdc2c83b54c74144905c0a358f3153db767a5da2a86\
            27f69627e1d41ede9c907c79b51ff815e4645c3375e0f63f84fcf5d7c3407a1dd6839e1906a1e380\
            2ccf5e8230d95cf4b827b41c483425a8a60bfa5189dac438060f2f5cd526662f2906c1dd64f4844e\
            942ca84daece6dd7bbf7194d8ce56bc2831085a7d310e4944cfae76260aabf6b",
        seed: "9cb4bf2446170ac381025266a1a4b86513df60ea7d07b1b2139d78f331ef7eb7be8b15d86cd85e2a\
            6a34a55869f8dcc9754f49697331b9b650ce256edb3371a94b7c2a132f2fc99d22303717c36739d1\
            7c0e9718d7c052e7ab4d4858adeb9b8b4d3303a9e1b6bef29f03035beed071d3bb810d853971a748\
            c56c59e0bafb9b5a",
        out: "e570e7484634300d7addf5a8527c138b7696dbc3d8be0969b75215318a11ada213538f6293b0eee5\
            b309ad8f5d8d94dbe5736127e0d2560f281c9c586bf7c86f",
    },
];

/// prf+(SKEYSEED, Ni | Nr | SPIi | SPIr).
const KEYS: [Vector; 6] = [
    Vector {
        hash: Hash::Sha256,
        key: "37fde90b81d63692620f67367b62092e3efdc6a03509137d731004767ff35010",
        seed: "ed80dc79912c32a935fb6d1a3feac07847c1858efc932ea4606fd05609624002",
        out: "63d018a08f7a29daa7d1f92cb63f45fa39bbaf5e5f1a78139613bb891e3e6bf9d0448f7c74e05b4c\
            1a25c0b61e62c875e852f287e192d4ae536112db5197216400bd5e123470efc15f53161865fe8b19\
            a1416518a157d651ecd2caddab6a9eae6a27a55af088218d5156edaa9789f934d9836ed43edffda5\
            53822202ff9f7d4860ca72e0",
    },
    Vector {
        hash: Hash::Sha256,
        key: "29bd115568ae0988270fc386d395fe3707a4d06289f352bba4c00a9ad855a08d",
        seed: "efa72913182278ffbd14e78920c062519abab8c16e5ed70c0841a48cdb98237ee93f735fb2df1843\
            58aadc13d83f43fe8d8705176c8ca313825a1bcdf77911c598001671ffbf014e37a8c04d49a7839d\
            fea6cdc587688d4588fe43235b71693ffd07293386b6bf4c199e336165b260787736f54be95db691\
            16388bc2eca2b3b29484717417bb3c71814ce13b84446dc3964c302984f97781f63166240890107c\
            2e751a00436f7c3c9ff12760e49d91563be603fd9641a0a64918a93291ed113db12f9707609d1720\
            96eb58f9154474da40c1f5c0903e9ca2f91ba6600775df7166caf8e327859e676232d34046044cee\
            43f9019f04685612635b99cbebcb363d565eaf0e547eecb941c994dfd471ed5643c087744f7709cc\
            3e2510f27426c62c0ff3acb3c27661d26a6d83c2a25e13a6d465bd047f905500e5ebbe4266430d56\
            67140f77e797712a8c8f63c583f4b4649b72899ea34abfdb17617c460c35f2506494494f223e251a\
            c71a5b9b7eea87f4f5e333a3c1bbb4bb09258b6a4b5f8c9fb82bf42da9d4a46543c6a9eb9aa30ea9\
            da801915abcc1712d082f292a63fd9af7154a97cc73859a4be3cba359d3218004e14df02d09edf0a\
            d5796bb010995293ab5d042c31055380cc9cb2e3617982c45f6bce1fb8a40ef9eac48ae17720dfec\
            c71ec857ea33f32eb346ba6036e8f9ccd7bcadc6c1ab92a80c57e78959d8b82857e91df9c5ffb842\
            4d5eadac0e570f7c",
        out: "d5033d087934c61538b23dff875b3ba920e05c1b42ac7f9793995e76ba3e461d6e83b2fbe0fa681b\
            a285696d53b175e070c4c1cbc74043f7cac558c494acd23aabfc7a685b6274134408cafc1692852a\
            ca663cefd7dd0c8a872a36a1414db4b7f314ad0e49f2c187162e2876c6053dbef5a2ea8c33dcd3dd\
            91687644377c45f4b5c418e1e10bec22baac313b902bdffcfb69c68ef4e71c5acc39a9f07acb1fc3\
            ba8e92c6dca861a64163b0689da4a97f124026360990c9f1ae4e8d0298f077fcbb0c203fd2ca821d\
            eab0591a221d9d0a798d02f078d8fb6e931ca446a13f11638c6b6afb8225a008f938a6878c5b577e\
            03aecfa7314101edd0fda3bdbea4985c",
    },
    Vector {
        hash: Hash::Sha384,
        key: "54436a9ea95d6ff79b967f4b07f6de976a376e8ea26aa9574709afc60243c9c141da4ca0e158e627\
            a75ea87f6feb07ef",
        seed: "d672b0bc852829b93509f3b7247063640f9a016d7b22223c85f710daf8b982d8",
        out: "10b00a654643b3b985764f86e23ef62431122fcc96de16e338a372bee49391db1f83a7358c080380\
            abbf4af47cdb83b9530343168f7dbc9221260e1546c6b383e2235d2705a727f0b41aebf6a1b4c61c\
            b460660152a17ba74c20d5191ba6841794945270d829587b7f3294639ea7b77149e1d07230ac16e0\
            cd5ab236fa3212bd569ee70f",
    },
    Vector {
        hash: Hash::Sha384,
        key: "ff66e9d092dc01e0b81f939f52f5c07d38d805b98628ce1ac5fe94c098577647339fad68941ffe21\
            e01efb4e7050213b",
        seed: "9e2a62f9362893ddf84716fec2f23f9dcbd9010df6fe9e0eb46d03d914f304d8fe4d3ee2d6a03b40\
            e56a325e822a17361929184ade09eaa445278d3870417a7cf565584f572ad34ff72bc7781a39a48b\
            54b55d6eb0ed68551b222c7afada0bc82236ec31ce6c046b3b2edb2def61f4d2d857b2d1cb3696c0\
            23e08c08d6abd04d4f69092b14583735b9e918aee5a3999dcbf58fdad6fcd47c95929877030e54b7\
            08235f2a2e11e7c58584619aa2fa69315344d3657b55720a25ebe88ea0776972c9e22469b7ed5da9\
            6b3c7685f7b0569960bd644f130b44a0d551bb0e902ed68ab384fdc2facaf79bbf8d6d3736dfa952\
            cd70f4746f1a4aeac2bdbeca97b78fc1777878c12859433552a77d7f942e5b60476991a1e3d0427c\
            d677345a1ce2063a2e0ec547a9d821da759f1a91b58817bd0dc4effc126f6f4eb0b911e904ed21dc\
            439d658a773f97e179ad20bc3c63609f2874062e835f6ae08d59654f9c8861e527039eeac32b9eed\
            293bd8b1e0e7c67bf1d755246a1b063ff00632a46dd5cf6948f0eed9b65c5939dfd21480a63df0ca\
            b0a7509c4245a1be7547ccc6f73c724b48b7867012e0ca3e472e0d550649a734440feffc8e73682c\
            b60453e7a47e72fe0874eb40acd0d48e4e57197416112bcdc8bb7a58bea745fdd64c16f666c88d9e\
            3bd235b137206f6cdba190be65ec033c191f676b428ec1205dc5e945828508d86fd4bc625402aa68\
            5f60725efdb42596",
        out: "2810288a45a502211feade9943b4224a3f54cf97f191b621d80a19f3f1b0366d5ed73d195b732a15\
            b599051a13b7c584175521e3a97cdb220c8924b0ec234a942e0579675f193926ab332970585553e2\
            30e3429c6e8ba71b9374bd4a8df969456840527f2cf635392be9c17ca8474cf01b332b8108b54c48\
            aafc86ac4cfce7058ee114540e5a1b952201ee3d0ac9d3e33f01807584339ac3f43ccdd395c58bb3\
            f4a4cc5c57871ea1d3eaa8d0302bb308d1d203af13147e87ab2b9159ae361ec011d673fe3f162b39\
            89da3488d8ffea2b51e7465faddca67d1d54c8940a8ab62e8abe4145cb25159125950119e3c01a81\
            3575f0a959b143bc31f62b4734aa45e2",
    },
    Vector {
        hash: Hash::Sha512,
        key: "daf9bd6f2f912da553867966af386e67909a8df0ca7e84b83b355cb7d7f1026f17d8ea34b5d57fd0\
            d1ba389528fca1e81d1c8ce511b28a2458241143fee30ccc",
        seed: "df7931db9b429e10b8aa8e4d460423939ba40af9157f47925383c7cd3d1046e6",
        out: "919a75deaeccbd393bebc89615f8a215edb7073b2319d86740221eee7a2deb92509044d7e61fcb1b\
            f9676b3881c7ced49e6bba1549da3113601677a2445d91ac13a597335782dd3a9cf496d9e19b932f\
            27dd35e36f8070d232d0a3b3f4c4a0b4ba4470778dc090f31f52ab1b6d81e4c7dfb35063ad96c327\
            adcdbde714cc9a6b5ef049b8",
    },
    Vector {
        hash: Hash::Sha512,
        key: "e570e7484634300d7addf5a8527c138b7696dbc3d8be0969b75215318a11ada213538f6293b0eee5\
            b309ad8f5d8d94dbe5736127e0d2560f281c9c586bf7c86f",
        seed: "d89684e3cb17f3aabd853a78db3ecd5aacc1ed71c70b88a29756f46fc7197c804ec001544002a8ae\
            a360684b18006def0dbd8633b1019fbcfa85b94cac2bb8212584be62adab0ee4bb8a36aee25275ef\
            071390480eefa2092eb308aa7337c5ceb6069ab690e8962fbfe0986e4f5c18f486861ed3f1dcbee4\
            c9e4a7669d740ca2b0e8ed4031b0a499dc315cede7ef03399cbc33dcd62970349f1220881b55452e\
            0c6c9b52a88b67f597586795b22570733fd4ff2cc2ad931d8330165a9e450e388859ce624f01db17\
            c2502b4e66adf96527363d6f906b2023e8ed74d5af0aa60246b0b92f49c4933ef312f8a25434ee96\
            98d6d9204345bd10bb11aa39865616d5ad1b5744706cfd4ea1408e20c8fdcf8551eee8814b7b3733\
            0b0526f0bc5ee15d4ecda7a1bd25aa97f24584d85d3f5249694b9f43539e69ea35bfe7fd4407bc8e\
            9dca8a9fae4bdc6b7bb38c6d68f899e1d32c85bcd617a567678cf85d2217a4e86a755624b6400235\
            4c026842bc9542491af1c3d6290970559af11bdc2c83b54c74144905c0a358f3153db767a5da2a86\
            27f69627e1d41ede9c907c79b51ff815e4645c3375e0f63f84fcf5d7c3407a1dd6839e1906a1e380\
            2ccf5e8230d95cf4b827b41c483425a8a60bfa5189dac438060f2f5cd526662f2906c1dd64f4844e\
            942ca84daece6dd7bbf7194d8ce56bc2831085a7d310e4944cfae76260aabf6b609d88789b8a1abf\
            500186c3d97ed2ab",
        out: "987fadd804994567d57f989b6cda66efbffcab28ac3e3bc6107805954eb1ead0cea6fb49aa961cbe\
            98fdad57dd9c45567ce496747862f88bcd9fc57559a07ea927a42082ba87e0f51b3d5b8cbdeadded\
            a3ae4c73b1a51dd0dce3cc8eb3b1419b93f29dc6522b2f5e9375238203eca98ed86bf1e6868ab428\
            d863a5f3b987d6c0f957af08a1631f7cdc008cbbffc24b02931a020194e368d6b5702e7f8b960dbc\
            93ca56ed5a68dae0206994edf1476f5fa34efbdaa973d27ba368cedcc666d763bd6ad560573851bf\
            fb7099af588f34ff2e599b0e87f70a7f4aa48e951d0c5c30ddfc1f98c128631590cde00a7c93158d\
            bf4caa537b315931b714d72f4d2a01c9",
    },
];

/// From SK_d on: prf+(SK_d, Ni | Nr) of a child, and prf+(SK_d, g^ir | Ni | Nr) of one with a key
/// exchange of its own (RFC 7296 §2.17). The numbers are those of NIST's ACVP-Server for
/// kdf-components-ikev2-1.0 (`internalProjection.json`, case 1002), whose outputs are longer: here
/// are their first 128 octets. Most other cases have nonces or secrets of broken octets.
struct Chain {
    hash: Hash,
    nonces: [&'static str; 2],
    spis: [&'static str; 2],
    skeyseed: &'static str,
    keys: &'static str,
    shared: &'static str,
    child: &'static str,
    child_exchanged: &'static str,
}

#[test]
fn keys_of_children_are_as_published() {
    for chain in &CHAINS {
        let derive = |key: &[u8], seed: &[&[u8]], expected: &str| {
            let expected = hex(expected);
            let mut made = vec![0; expected.len()];
            prf_plus(chain.hash, key, seed, &mut made);
            assert_eq!(made, expected, "{:?}", chain.hash);
            made
        };
        let [ni, nr] = chain.nonces.map(hex);
        let [spi_i, spi_r] = chain.spis.map(hex);
        let all = [&ni[..], &nr, &spi_i, &spi_r];
        let keys = derive(&hex(chain.skeyseed), &all, chain.keys);
        let d = &keys[..chain.hash.len()];
        derive(d, &[&ni, &nr], chain.child);
        derive(d, &[&hex(chain.shared), &ni, &nr], chain.child_exchanged);
    }
}

const CHAINS: [Chain; 1] = [Chain {
    hash: Hash::Sha384,
    nonces: ["ee8ad427d1753fc4", "38ae1bff58002cf1"],
    spis: ["cb19bdac727a0738", "2ab9edae263a97f3"],
    skeyseed: "e6a6ab5ac0755cf605b3fe1f87df7e0d878f96c55017803bc3803ee29941dc14d8a29382d1a50580\
            b41ea3cf024a897e",
    keys: "421bf26eb825e909738cc17aac7ce8aab4f59d3319f1d0f85691d85b5c9d12702a30833addc40573\
            3f8267bdf6ab81d8fb8b2445769758b2ef3dd088dc867c0d6b78006f8c4cd96ccf494ef83e472e96\
            7847ac13eed6c44aea2b85b4c21ee17341047b5bcd3ee37a6f7c95edc273048ba3c66bfae43dbcae\
            7ef40b151d53a4ff",
    shared: "398435ff8c7dda42e8e675f7b974461f98d10d49a870f79483758c41042770ab8d7b06c448865137\
            03961e1dcf1b68575bc2d3e22595b440487d86deb5ded90603441222cca2e16cb433de5db03f120a\
            53411fde2e74f0a09dd26629f2056ae1f3cf5ce126bb997ba0015716355213aea779e420bfcdd55f\
            2638de651d816e0b4914afc3eeba833761dfab04d317d97c3883ab6011b3f6a2924a9ca9f3fb5b4b\
            062a2d0fce4b3253daf5d4b67068aac3e2d16078cd743676237d0f200e5d2d36951b6d7edabb4e99\
            fc79d5472a1920a26baa062131f16773a907cb1ce52fcdaf3cfecf900b156ee8f3926a35e7df7dee\
            9af44fdb0c6a3465ac789348a4412b66aebc26a808ba97ba86138b655613eb3c506f5d10967c6b63\
            a6d84ba2d0f5fc7ef7c148d31bce5ef804e55778cddb3df71a633da0bf2327f78f427666b29ba0de\
            8b5941940b06a08e101d33bd73fba61d3ffe3e70d387d7395554d9bb5c6f1538a3cb7373f87df659\
            d41128965c7d4c69fed3d6c8d444aaffcc3a11015f749f39b48f3bc064a4f115c612b47d86a47367\
            563930fca8c9c8df8bd818ea92bc6b898faf3bcfe5a2a22ed07e919c2335d7e524a4becbfd2fe8ef\
            5f216207d3c29458afd8b35e89970c14042d2b91b92700eedfebac26141b61420dc466f1b7a75cfc\
            104bc42424b7d0d0cbd3e75f71f6b4c6121aae2fbea4a374fdd8165a67d7e7ec8c9d876ded13098e\
            1a6acbb88f5f1a231fcec99f93e89a97b8b2382d46eb3b968b77be8c19d395dcb94218583b5b2635\
            055c45a36e72634b29a14082efc2d132c30714b694208065723812f734c338f83528f0181eff9e9f\
            2d53ac99380714cb3a4c1c74545b5df67464a20c12909ed53a798a048e0b7fe07b6811f216f4c915\
            442487d3997371bf2c7e239ddf19083f45c38e011c59efc11fb5e7c61b8974980182261acfe498c9\
            7aa65d7ecd9e95632f2c7c8b8dca976b3e57b7323cec6689fcf13c757c376bc14e1bccb3c42e19d7\
            e824b3811371893df7a3513ba6e7e5475a22ace7767e87e2ae8ffc17088e0e90935d192234c1aba9\
            d8b2f304191a514a32d442d3bfad350246e742bf1a62efeba86a56f732171c9df56c94ab80cec9f1\
            4f1779f87ab7fbe9554b39505fa1156d5d74d3e20ba062acccbd8aba968a4d8037a26030d04d5f7b\
            4d619894c4e95a7f262b36ce4e0193b0474a45d932494bede0fe39b9213c98934221e49f50aaf612\
            96bc03e2782e7e715c816d69e1a29d3201e83ebbfbf13c2a0daefccd73ef32b5b3267ccf7b4cd61e\
            b935ab5d66a6423fef578e825fa939138c7f2f4e4c38a707dfd30f23e18c898f6b9d653504c9a93c\
            fd49061af71188c24a5d5c05dc42bc1e6ab02610e33f88f5728594e86c8370e8840b90095712b806\
            e4f2636982fb150086d1b975b12d488e525d2caf186db5ae",
    child: "f93183b439d7ff4fade305db73f42d4cbc5ca64d69e4863ddffed8f0fabb3b45463a18185a96cfa6\
            e3f700750b0143a1c45f3f8c12407b32faed2cdfc9545a79d4cd71354e9a64759ecb096885118944\
            674a9346866207c613715e6ec8c74e3b2972e18cb44198429a4377b2c6e8329621276c3909b028b0\
            40c9fff1e14284cb",
    child_exchanged: "6f6b7a00fae4995d27ec8d15d0e86af753a095e2cae0ead732c247f320df\
            f958270d683824e43bbe\
            15cd332cafefac94c2ad053ee1940ec9aec4f4f2df162676a22fbc135334823e2f6d9aef55ebf7e8\
            0f779d08d9b37dec11628b703bfa27ae3e7f285aaefdf442d6ca12ba52ebc42ca56415108bc7bd06\
            1eae3dceaa75b3ef",
}];
